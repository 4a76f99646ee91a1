import { Command } from 'commander'
import { loadConfig } from '../platform/config.ts'
import { installEverything } from '../platform/debian-packages.ts'
import type { Finding } from '../platform/finding.ts'
import { dataDirOption, printTable, type StateFlags } from './shared.ts'

interface DoctorFlags extends StateFlags {
  readonly host?: string
  readonly port?: string
}

/** `fairlead doctor`: exits with 0, or with 1 when a requirement of the server is missing. */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('check what this machine offers, what is missing, and what that costs')
    .option('--host <address>', 'the address to listen on (FAIRLEAD_HOST; 127.0.0.1)')
    .option('--port <port>', 'the port to listen on (FAIRLEAD_PORT; 3000)')
    .addOption(dataDirOption())
    .action(async (flags: DoctorFlags) => {
      const { findings } = await import('../doctor.ts')
      const config = loadConfig(flags)
      const found = await findings(config)
      printTable([['', 'check', 'found'], ...found.map(({ state, subject, found }) => [labels[state], subject, found])])
      const costs = found.filter(({ cost }) => cost !== undefined)
      for (const { subject, cost } of costs) process.stdout.write(`\n${subject}: ${cost}\n`)
      const installable =
        config.appNetwork === null ? /^(git|isolation|prlimit|Caddy)$/ : /^(git|isolation|networks|prlimit|Caddy)$/
      if (found.some(({ subject, state }) => installable.test(subject) && state !== 'ok')) {
        process.stdout.write(`\nOn Debian, this installs all programs that a server uses:\n  ${installEverything()}\n`)
      }
      if (found.some(({ state }) => state === 'broken')) process.exitCode = 1
    })
}

const labels: Readonly<Record<Finding['state'], string>> = {
  ok: 'ok',
  absent: '-',
  missing: 'missing',
  broken: 'BROKEN',
}
