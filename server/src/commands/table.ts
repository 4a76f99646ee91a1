import type { LazyCommand } from './lazy-program.ts'

const local = async () => (await import('./local-server.ts')).localServer

/** All commands in the order of the help: commands of users, as in `@fairlead/cli`, then commands of operators. */
export const commands: readonly LazyCommand[] = [
  {
    usage: 'deploy [options] [source]',
    description: 'deploy the committed state of a folder, or a repository by its address, and follow it',
    load: async () => (await import('./client/deploy.ts')).deployCommand(await local()),
  },
  {
    usage: 'logs [options] [app]',
    description: 'print the log of an app: of its newest deployment, the build first',
    load: async () => (await import('./client/logs.ts')).logsCommand(await local()),
  },
  {
    usage: 'open [options] [app]',
    description: 'print the address of an app, and open it in a browser where there is one',
    load: async () => (await import('./client/open.ts')).openCommand(await local()),
  },
  {
    usage: 'env',
    description: "list and change an app's variables; a change deploys the commit that serves again",
    load: async () => (await import('./client/env.ts')).envCommand(await local()),
  },
  {
    usage: 'ps [options] [app]',
    description: 'list the process types of an app and their instances',
    load: async () => (await import('./client/processes.ts')).psCommand(await local()),
  },
  {
    usage: 'scale [options] <app> <type=count...>',
    description: 'set how many instances of its process types an app has, such as web=3 worker=1',
    load: async () => (await import('./client/processes.ts')).scaleCommand(await local()),
  },
  {
    usage: 'metrics [options] <app>',
    description: 'print the requests, response times, CPU and memory of an app',
    load: async () => (await import('./client/metrics.ts')).metricsCommand(await local()),
  },
  {
    usage: 'git',
    description: "store an app's credentials for its private repository",
    load: async () => (await import('./client/git.ts')).gitCommand(await local()),
  },
  {
    usage: 'links',
    description: 'link databases to an app: a variable of its releases has the connection string',
    load: async () => (await import('./client/links.ts')).linksCommand(await local()),
  },
  {
    usage: 'volumes',
    description: 'the folders that an app keeps over its releases',
    load: async () => (await import('./client/volumes.ts')).volumesCommand(await local()),
  },
  {
    usage: 'domains',
    description: 'serve an app at your domains',
    load: async () => (await import('./client/domains.ts')).domainsCommand(await local()),
  },
  {
    usage: 'certificates',
    description: 'the certificates of your apps, and your own ones',
    load: async () => (await import('./client/certificates.ts')).certificatesCommand(await local()),
  },
  {
    usage: 'registries',
    description: "store a project's credentials for registries of container images",
    load: async () => (await import('./client/registries.ts')).registriesCommand(await local()),
  },
  {
    usage: 'promote [options] <app>',
    description: 'release what serves an app in another app, without another build',
    load: async () => (await import('./client/deploy.ts')).promoteCommand(await local()),
  },
  {
    usage: 'run [options] <app> <command...>',
    description: 'run a command beside an app, with its files, variables and limits, and end with its status',
    load: async () => (await import('./client/run.ts')).runCommand(await local()),
  },
  {
    usage: 'runs',
    description: 'list the commands that ran beside an app, see what they printed, and end those that run',
    load: async () => (await import('./client/schedules.ts')).runsCommand(await local()),
  },
  {
    usage: 'schedules',
    description: 'run commands of an app at times, and see how they went',
    load: async () => (await import('./client/schedules.ts')).schedulesCommand(await local()),
  },
  {
    usage: 'import',
    description: 'bring what runs elsewhere',
    load: async () => (await import('./client/compose/import.ts')).importCommand(await local()),
  },
  {
    usage: 'login [options] [url]',
    description: 'keep the address and an API key of a server for deploy, logs, open, env and api',
    load: async () => (await import('./client/login.ts')).loginCommand(await local()),
  },
  {
    usage: 'api',
    description: 'call an operation of the API, on this server or another one',
    load: async () => (await import('./client/api.ts')).apiCommand(),
  },
  {
    usage: 'serve [options]',
    description: 'run the server',
    load: async () => (await import('./serve.ts')).serveCommand(),
  },
  {
    usage: 'status [options]',
    description: 'show what runs of the data directory, since when and in which version; starts nothing',
    load: async () => (await import('./status.ts')).statusCommand(),
  },
  {
    usage: 'stop [options]',
    description: 'stop servers, gateway, apps and databases of the data directory, with a server or without one',
    load: async () => (await import('./stop.ts')).stopCommand(),
  },
  {
    usage: 'service',
    description: 'run the server as a service of systemd',
    load: async () => (await import('./service.ts')).serviceCommand(),
  },
  {
    usage: 'doctor [options]',
    description: 'check what this machine offers, what is missing, and what that costs',
    load: async () => (await import('./doctor.ts')).doctorCommand(),
  },
  {
    usage: 'keys',
    description: 'create, list, rotate and revoke API keys',
    load: async () => (await import('./keys.ts')).keysCommand(),
  },
  {
    usage: 'trust',
    description: 'let workflows deploy to a project without a stored key',
    load: async () => (await import('./trust.ts')).trustCommand(),
  },
  {
    usage: 'accounts',
    description: 'create, list and update accounts',
    load: async () => (await import('./accounts.ts')).accountsCommand(),
  },
  {
    usage: 'users',
    description: 'invite, list and remove users of the dashboard',
    load: async () => (await import('./users.ts')).usersCommand(),
  },
  {
    usage: 'postgres',
    description: "install versions of PostgreSQL for users' databases",
    load: async () => (await import('./postgres.ts')).postgresCommand(),
  },
  {
    usage: 'reload [options]',
    description: 'replace the running server by a new one of the current version; nothing is interrupted',
    load: async () => (await import('./reload.ts')).reloadCommand(),
  },
  {
    usage: 'update [options] [version or files...]',
    description: 'install another version beside this one, and use it; the former is kept',
    load: async () => (await import('./update.ts')).updateCommand(),
  },
  {
    usage: 'self-check [options]',
    description: 'print what this version needs, as JSON',
    load: async () => (await import('./update.ts')).selfCheckCommand(),
    isHidden: true,
  },
]
