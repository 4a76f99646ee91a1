import { Command } from 'commander'
import { run } from './client/main.ts'
import { doctorCommand } from './doctor.ts'

/*
 * Runs `fairlead doctor` from the sources of a checkout that is not built yet. No import may need a built package of
 * the workspace.
 */
await run(new Command('fairlead').addCommand(doctorCommand()))
