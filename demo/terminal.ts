import { styleText } from 'node:util'

type Style = Parameters<typeof styleText>[0]

/** What the story tells: attractive in a terminal, plain lines when piped. */
export interface Terminal {
  title(text: string): void
  /** Runs one step and prints it with the time it took; prints and rethrows its failure. */
  step<T>(title: string, work: () => Promise<T>, describe: (result: T) => string): Promise<T>
  /** A line of somebody else's, such as the action's output. */
  quote(who: string, line: string): void
  line(text?: string): void
}

export function createTerminal(out: NodeJS.WriteStream): Terminal {
  const paint = (style: Style, text: string) => styleText(style, text, { stream: out })
  const line = (text = '') => void out.write(`${text}\n`)
  return {
    line,
    title(text) {
      line()
      line(paint(['bold', 'cyan'], text))
    },
    async step(title, work, describe) {
      const start = performance.now()
      const time = () => paint('dim', `${Math.round(performance.now() - start)} ms`.padStart(9))
      try {
        const result = await work()
        line(`${paint('green', '  ✓')} ${title.padEnd(34)} ${time()}   ${describe(result)}`)
        return result
      } catch (error) {
        line(`${paint('red', '  ✗')} ${title.padEnd(34)} ${time()}   ${error instanceof Error ? error.message : error}`)
        throw error
      }
    },
    quote(who, text) {
      line(paint('dim', `      ${who.padEnd(8)} │ ${text}`))
    },
  }
}
