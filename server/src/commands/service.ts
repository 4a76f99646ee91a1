import { Command } from 'commander'
import type { InstallFlags } from './systemd-service.ts'

/** `fairlead service install|uninstall|status`. Each is imported when it is called, because few users need them. */
export function serviceCommand(): Command {
  return new Command('service')
    .description('run the server as a service of systemd')
    .addCommand(installCommand())
    .addCommand(
      new Command('uninstall')
        .description('stop the service with everything that it runs, and remove it; all data is kept')
        .action(async () => (await import('./systemd-service.ts')).uninstall()),
    )
    .addCommand(
      new Command('status')
        .description('explain whether the service is installed, runs, and is as this version would install it')
        .action(async () => (await import('./systemd-service.ts')).status()),
    )
}

function installCommand(): Command {
  return new Command('install')
    .description('install and start the service; settings belong into /etc/fairlead/fairlead.env')
    .option('--data-dir <folder>', "the server's data directory", '/var/lib/fairlead')
    .option('--user <name>', 'run the server as this user instead of root; bubblewrap then isolates apps')
    .option('--without-isolation', 'go on where builds and apps cannot be kept apart from the machine')
    .option('--dry-run', 'print what would be written, and change nothing')
    .option('--force', 'replace units that differ')
    .action(async (flags: InstallFlags) => (await import('./systemd-service.ts')).install(flags))
}
