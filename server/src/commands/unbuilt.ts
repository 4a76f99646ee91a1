import { Command } from 'commander'
import { run } from './client/main.ts'
import { doctorCommand } from './doctor.ts'

/** `fairlead doctor` for a checkout that is not built yet. No import may need a built package. */
await run(new Command('fairlead').addCommand(doctorCommand()))
