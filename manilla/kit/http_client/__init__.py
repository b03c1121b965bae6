"""Our HTTP/1.1 client, for calls to providers and to merchants' servers.

It follows no redirects, has no cookies and ignores the proxy settings of the environment.
"""
