"""From the bytes of a record to an event, or to the reason why it is not one."""
