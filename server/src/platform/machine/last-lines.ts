/** Returns the last lines of a text that are not empty, for error messages. */
export function lastLines(text: string, count = 12): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.slice(-count).join('\n')
}
