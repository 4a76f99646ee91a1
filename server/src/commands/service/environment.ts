/** The first content of the service's file of settings: nothing is set, all that most servers need is named. */
export const firstEnvironment = `# The settings of Fairlead's service. Each is explained in docs/configuration.md.
# After a change: systemctl restart fairlead

# The address to listen on; 0.0.0.0 lets other machines in.
#FAIRLEAD_HOST=127.0.0.1
#FAIRLEAD_PORT=3000

# HTTPS under a domain of your own: the dashboard at fairlead.<domain>, apps at names below it. Point <domain> and *.<domain>
# at this machine, and install Caddy.
#FAIRLEAD_DOMAIN=example.com
#FAIRLEAD_ACME_EMAIL=you@example.com

# Instead, with a proxy of your own: the address by which others reach the server, and the domain of apps.
#FAIRLEAD_PUBLIC_URL=https://fairlead.example.com
#FAIRLEAD_APPS_DOMAIN=apps.example.com
#FAIRLEAD_TRUSTED_PROXIES=127.0.0.1

# A PostgreSQL server of your own instead of the embedded one.
#DATABASE_URL=postgresql://fairlead:PASSWORD@db.example.com:5432/fairlead

# How builds reach a package registry.
#FAIRLEAD_BUILD_ENV={"npm_config_registry":"https://npm.example.com"}
`
