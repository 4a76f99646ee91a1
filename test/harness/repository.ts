import { execFile } from 'node:child_process'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { temporaryDirectory } from './temporary.ts'

const run = promisify(execFile)

export interface Repository extends AsyncDisposable {
  readonly path: string
  /** For `git_url`. */
  readonly url: string
  /** Writes files, commits them on the current branch and returns the commit's hash. */
  commit(files: Readonly<Record<string, string>>): Promise<string>
  git(...args: string[]): Promise<string>
}

/** Folders of repositories by the folder around them and by their files. The folders remain until the run ends. */
const made = new Map<string, Promise<string>>()

/** Makes a git repository with these files on the branch `main`. */
export async function repository(files: Readonly<Record<string, string>>): Promise<Repository> {
  const directory = await temporaryDirectory()
  const opened = repositoryIn(directory.path)
  // Each benchmark has a folder for temporary files, and removes it.
  const key = JSON.stringify([tmpdir(), files])
  const template = made.get(key) ?? makeTemplate(files)
  made.set(key, template)
  // A copy takes a fraction of the time of four git processes.
  await cp(await template, directory.path, { recursive: true })
  return { ...opened, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() }
}

async function makeTemplate(files: Readonly<Record<string, string>>): Promise<string> {
  const { path } = await temporaryDirectory()
  const { git, commit } = repositoryIn(path)
  await git('init', '--quiet', '--template=', '--initial-branch', 'main')
  if (Object.keys(files).length > 0) await commit(files)
  return path
}

function repositoryIn(path: string): Omit<Repository, keyof AsyncDisposable> {
  const settings = ['user.name=Test', 'user.email=test@example.com', 'commit.gpgsign=false', 'maintenance.auto=false']
  const git = async (...args: string[]) =>
    (await run('git', [...settings.flatMap((each) => ['-c', each]), ...args], { cwd: path })).stdout.trim()
  return {
    path,
    url: pathToFileURL(path).href,
    git,
    async commit(changes) {
      for (const [name, content] of Object.entries(changes)) {
        await mkdir(dirname(join(path, name)), { recursive: true })
        await writeFile(join(path, name), content)
      }
      await git('add', '--all')
      await git('commit', '--quiet', '--allow-empty', '--message', 'change')
      return git('rev-parse', 'HEAD')
    },
  }
}

/** Returns the files of a Node app without dependencies that answers every request with a text. */
export function nodeApp(answer: string): Record<string, string> {
  return {
    'package.json': JSON.stringify({ name: 'app', scripts: { start: 'node server.js' } }),
    'server.js': `require('node:http').createServer((request, response) => response.end(${JSON.stringify(answer)}))
  .listen(process.env.PORT)\n`,
  }
}
