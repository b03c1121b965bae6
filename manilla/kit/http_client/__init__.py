"""An HTTP/1.1 client for calls to providers and to merchants' servers.

The client does not follow redirects, has no cookies and ignores proxy settings in environment
variables.
"""
