import { Command } from 'commander'
import type { Finding } from '../doctor.ts'
import { loadConfig } from '../platform/config.ts'
import { dataDirOption, printTable, type StateFlags } from './shared.ts'

interface DoctorFlags extends StateFlags {
  readonly host?: string
  readonly port?: string
}

/** `fairlead doctor`: status 0, or 1 when something is missing that the server cannot run without. */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('look at what this machine offers, what is missing, and what that costs')
    .option('--host <address>', 'the address to listen on (FAIRLEAD_HOST; 127.0.0.1)')
    .option('--port <port>', 'the port to listen on (FAIRLEAD_PORT; 3000)')
    .addOption(dataDirOption())
    .action(async (flags: DoctorFlags) => {
      const { findings } = await import('../doctor.ts')
      const found = await findings(loadConfig(flags))
      printTable([['', 'what', 'found'], ...found.map(({ state, what, found }) => [words[state], what, found])])
      const costs = found.filter(({ cost }) => cost !== undefined)
      for (const { what, cost } of costs) process.stdout.write(`\n${what}: ${cost}\n`)
      if (found.some(({ state }) => state === 'broken')) process.exitCode = 1
    })
}

const words: Readonly<Record<Finding['state'], string>> = { well: 'ok', missing: 'missing', broken: 'BROKEN' }
