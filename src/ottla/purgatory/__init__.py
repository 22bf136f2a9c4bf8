"""Requests that wait: operations watched by key, completed once by an event or by the timing wheel."""
