import { readFile } from 'node:fs/promises'

const readme = new URL('../../../README.md', import.meta.url)

/** Returns the commands of a section of the README, one per line, as its readers copy them. */
export async function readmeCommands(heading: string): Promise<string[]> {
  const text = await readFile(readme, 'utf8')
  const at = text.indexOf(`\n${heading}\n`)
  if (at === -1) throw new Error(`the README has no section "${heading}"`)
  const section = text.slice(at + heading.length + 2).split(/\n#{1,6} /)[0] ?? ''
  const blocks = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = '']) => block)
  if (blocks.length === 0) throw new Error(`the section "${heading}" of the README has no commands`)
  return blocks.flatMap((block) => block.split('\n').filter((line) => line !== ''))
}
