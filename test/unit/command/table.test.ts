import { Help } from 'commander'
import { describe, expect, it } from 'vitest'
import { clientProgram } from '../../../server/src/commands/client/program.ts'
import { commands } from '../../../server/src/commands/table.ts'

describe.each(commands)('the list of commands', ({ usage, description, load }) => {
  it(`describes ${usage.split(' ')[0]} as the command describes itself`, async () => {
    const command = await load()
    expect({ usage: new Help().subcommandTerm(command), description: command.description() }).toEqual({
      usage,
      description,
    })
  })
})

it('the server has all commands of users, in the same order', () => {
  const names = clientProgram('', '').commands.map((command) => command.name())
  expect(commands.slice(0, names.length).map(({ usage }) => usage.split(' ')[0])).toEqual(names)
})
