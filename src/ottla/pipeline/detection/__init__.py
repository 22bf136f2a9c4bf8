"""The detectors: verdicts as pure functions of a subject's events, and the steps that keep them up to date."""
