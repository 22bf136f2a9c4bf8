"""How good the detectors are: alerts compared with a planted truth, as tables, a page and plots."""
