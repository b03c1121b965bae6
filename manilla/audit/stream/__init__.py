"""The audit stream: sends the audit log, as OCSF events, to the tools of a security team."""
