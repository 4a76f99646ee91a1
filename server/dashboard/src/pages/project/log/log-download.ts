import type { LogLine } from '../../../data/log/log-line.ts'

/** Saves the lines of a log as a file. */
export function downloadLog(name: string, lines: readonly LogLine[]): void {
  const text = lines.map(({ at, text: line }) => (at === null ? line : `${at} ${line}`)).join('\n')
  const url = URL.createObjectURL(new Blob([`${text}\n`], { type: 'text/plain' }))
  const link = document.createElement('a')
  link.href = url
  link.download = `${name}.log`
  link.click()
  URL.revokeObjectURL(url)
}
