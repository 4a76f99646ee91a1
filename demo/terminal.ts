import { styleText } from 'node:util'

type Style = Parameters<typeof styleText>[0]

/** Prints the steps: with colors in a terminal, as plain lines when piped. */
export interface Terminal {
  title(text: string): void
  /** Runs one step and prints it with its duration. Prints and rethrows an error. */
  step<T>(title: string, task: () => Promise<T>, describe: (result: T) => string): Promise<T>
  /** Prints a line of another program, such as the action. */
  quote(source: string, line: string): void
  line(text?: string): void
}

/** A step that takes longer says that it goes on. */
const aliveMs = 15_000

export function createTerminal(out: NodeJS.WriteStream): Terminal {
  const paint = (style: Style, text: string) => styleText(style, text, { stream: out })
  const line = (text = '') => void out.write(`${text}\n`)
  return {
    line,
    title(text) {
      line()
      line(paint(['bold', 'cyan'], text))
    },
    async step(title, task, describe) {
      const start = performance.now()
      const time = () => paint('dim', `${Math.round(performance.now() - start)} ms`.padStart(9))
      const alive = setInterval(() => line(`    Still at this step: ${title} ${time()}`), aliveMs)
      try {
        const result = await task()
        line(`${paint('green', '  ✓')} ${title.padEnd(34)} ${time()}   ${describe(result)}`)
        return result
      } catch (error) {
        line(`${paint('red', '  ✗')} ${title.padEnd(34)} ${time()}   ${error instanceof Error ? error.message : error}`)
        throw error
      } finally {
        clearInterval(alive)
      }
    },
    quote(source, text) {
      line(paint('dim', `      ${source.padEnd(8)} │ ${text}`))
    },
  }
}
