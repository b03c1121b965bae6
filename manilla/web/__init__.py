"""Code that dashboard and console share: requests, forms, lists, templates and account pages."""
