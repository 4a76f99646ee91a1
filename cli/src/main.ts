import { readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { run } from '../../server/dist/commands/client/main.js'
// The server's commands, bundled with everything that they import, so that an installation needs nothing else.
import { clientProgram } from '../../server/dist/commands/client/program.js'

// By the program that was started, in bin/: the bundler would copy a file that it finds by the place of this one.
const program = realpathSync(process.argv[1] ?? '')
const { version } = JSON.parse(readFileSync(join(dirname(program), '../package.json'), 'utf8')) as {
  readonly version: string
}

await run(clientProgram('Fairlead: deploys to a server, and works with what runs there', version))
