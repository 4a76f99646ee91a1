import { Command } from 'commander'
import { run } from './client/main.ts'
import { doctorCommand } from './doctor.ts'

/*
 * The program of a checkout that is not built yet, which Node runs from its sources: it looks at the machine. Nothing that it
 * imports may need a built package of the workspace.
 */
await run(new Command('fairlead').addCommand(doctorCommand()))
