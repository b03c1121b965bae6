"""Webhook endpoints: URLs of merchants that receive events as Standard Webhooks."""
