"""Vocabulary, records, devices and units: the ground that every other room stands on."""
