"""From probe measurements to constants with intervals."""
