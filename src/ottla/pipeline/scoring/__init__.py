"""How good the detectors are: alerts held against a planted truth, as tables, a page and plots."""
