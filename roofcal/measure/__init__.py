"""Plan -> measurements on a real processor: sessions, workers, timing, telemetry, correctness."""
