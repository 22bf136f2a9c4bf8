"""The pages are run, parsed and linked as they are written."""
