"""Company sign-in: users sign in with the OpenID Connect provider of the operator or a merchant."""
