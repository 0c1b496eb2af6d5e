"""Who may use the dashboard: roles and secrets, cookies, and protection against cross-site request forgery."""
