import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { imageName, parseImageReference } from '../../../server/src/contract/image-reference.ts'
import { sleepUntilAborted } from '../../../server/src/platform/abort.ts'
import { imageCommandName } from '../../../server/src/platform/toolchain.ts'
import {
  type Images,
  type RegistryCredentials,
  type Runtime,
  RuntimeError,
} from '../../../server/src/runtimes/runtime.ts'
import { createExampleRuntime, type ExampleMachine, folderOf } from './example.ts'

type Argv = readonly [string, ...string[]]

/** A registry in the memory of the test. */
export interface ExampleRegistry {
  /** The command of each image by its digest. */
  readonly commands: Map<string, Argv>
  /** The digests of full references with a tag. */
  readonly tags: Map<string, string>
  /** The required credentials; null without authentication. */
  credentials: RegistryCredentials | null
  /** The requested references. */
  readonly pulls: string[]
}

export const digestOf = (digit: string): string => `sha256:${digit.repeat(64)}`

/** The example runtime with images: an image is a command that runs by itself. */
export function createExampleImages(machine: ExampleMachine, registry: ExampleRegistry): Runtime {
  const runtime = createExampleRuntime(machine)
  const commandFile = (release: { readonly appId: string; readonly id: string }) =>
    join(folderOf(machine, release), 'image.json')
  const make = async (release: { readonly appId: string; readonly id: string }, command: Argv) => {
    await mkdir(folderOf(machine, release), { recursive: true })
    await writeFile(commandFile(release), JSON.stringify(command))
  }
  const images: Images = {
    canBuild: true,

    async pull(release, { reference, credentials }, { output, signal }) {
      signal.throwIfAborted()
      registry.pulls.push(reference)
      const { credentials: asked } = registry
      if (asked !== null && JSON.stringify(asked) !== JSON.stringify(credentials)) {
        throw new RuntimeError('image_denied', 'The registry refuses the image without credentials: store some.')
      }
      const parsed = parseImageReference(reference)
      if ('problem' in parsed) throw new Error(`the runtime was given ${reference}`)
      const digest = parsed.digest ?? registry.tags.get(reference)
      const command = digest === undefined ? undefined : registry.commands.get(digest)
      if (command === undefined) throw new RuntimeError('image_not_found', `There is no image ${reference}.`)
      await output.write(`${reference} has ${digest}\n`)
      await make(release, command)
      return `${imageName(parsed)}@${digest}`
    },

    async build(release, { path, target, context }, { output, signal, credentialsFor }) {
      await output.write(`Step 1/1: ${path} in ${context}, for ${target ?? 'the last stage'}\n`)
      if (target === 'private') {
        const credentials = await credentialsFor('registry.example')
        if (credentials === null) throw new RuntimeError('image_denied', 'The registry asks for credentials.')
        if (JSON.stringify(credentials) !== JSON.stringify(registry.credentials)) throw new Error('other credentials')
      }
      if (target === 'hangs') await sleepUntilAborted(600_000, signal)
      signal.throwIfAborted()
      const failed = { code: 1, signal: null, exceeded: null }
      if (target === 'fails') return failed
      if (target === 'eats') {
        return { ...failed, exceeded: { code: 'out_of_memory', allowed: 512_000_000, used: null } }
      }
      await make(release, ['node', 'app.js', 'listens'])
      return { code: 0, signal: null, exceeded: null }
    },
  }
  return {
    ...runtime,
    images,
    instances: {
      ...runtime.instances,
      async start(release, command, output, options) {
        const [program] = command.argv
        const argv =
          program === imageCommandName ? JSON.parse(await readFile(commandFile(release), 'utf8')) : command.argv
        return runtime.instances.start(release, { argv }, output, options)
      },
    },
  }
}
