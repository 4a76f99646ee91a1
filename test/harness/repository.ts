import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
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

/** Makes a git repository with these files on the branch `main`. */
export async function repository(files: Readonly<Record<string, string>>): Promise<Repository> {
  const directory = await temporaryDirectory()
  const git = async (...args: string[]) => {
    const settings = ['-c', 'user.name=Test', '-c', 'user.email=test@example.com', '-c', 'commit.gpgsign=false']
    return (await run('git', [...settings, ...args], { cwd: directory.path })).stdout.trim()
  }
  const commit: Repository['commit'] = async (changes) => {
    for (const [name, content] of Object.entries(changes)) {
      await mkdir(dirname(join(directory.path, name)), { recursive: true })
      await writeFile(join(directory.path, name), content)
    }
    await git('add', '--all')
    await git('commit', '--quiet', '--allow-empty', '--message', 'change')
    return git('rev-parse', 'HEAD')
  }
  await git('init', '--quiet', '--initial-branch', 'main')
  if (Object.keys(files).length > 0) await commit(files)
  return {
    path: directory.path,
    url: pathToFileURL(directory.path).href,
    commit,
    git,
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
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
