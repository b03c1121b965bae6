"""Webhook endpoints: merchants' URLs that receive events as Standard Webhooks."""
