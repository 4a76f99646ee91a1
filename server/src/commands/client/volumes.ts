import { Command } from 'commander'
import type { LocalServer } from './connection.ts'
import { type AppFlags, appCommand, type NamedApp, withNamedApp } from './find-app.ts'
import { printable } from './logs.ts'

export function volumesCommand(local?: LocalServer): Command {
  const part = (name: string, description: string) => appCommand(name, description, local)
  return new Command('volumes')
    .description('the folders that an app keeps over its releases')
    .addCommand(
      part('list', 'print the volumes of an app, their paths and their sizes').action((app: string, flags: AppFlags) =>
        withNamedApp(local, flags, app, list),
      ),
    )
    .addCommand(
      part('delete', 'delete volumes that the app does not use, with their files, for good')
        .argument('<volume...>', 'the names of the volumes')
        .action((app: string, volumes: string[], flags: AppFlags) =>
          withNamedApp(local, flags, app, async ({ connection, params }) => {
            await connection.client.volumes.update({ params, body: { delete: volumes } })
          }),
        ),
    )
}

async function list({ connection, params }: NamedApp): Promise<void> {
  const { volumes } = await connection.client.volumes.list({ params })
  for (const { name, path, bytes } of volumes) {
    const size = bytes === null ? '-' : `${(bytes / 1e6).toFixed(1)} MB`
    process.stdout.write(`${printable([name, path ?? '(not used)', size].join('\t'))}\n`)
  }
}
