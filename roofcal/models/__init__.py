"""Models of time: datasheet, torchao, wave, and calibrated, which evaluates the ops' equations."""
