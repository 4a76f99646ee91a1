import { Command } from 'commander'
import { run } from './commands/client/main.ts'
import { addLazily } from './commands/lazy-program.ts'
import { commands } from './commands/table.ts'
import { ownVersion } from './platform/package-files.ts'
import { nameSourceLines } from './platform/source-lines.ts'

nameSourceLines()
const program = new Command('fairlead')
  .description('Fairlead, a cloud platform that you run yourself')
  .version(ownVersion)
await run(await addLazily(program, commands, process.argv.slice(2)))
