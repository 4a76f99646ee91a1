/** The last days with security fixes of the majors of Node, as its release schedule tells them. */
const lastDays: Readonly<Record<number, string>> = {
  18: '2025-04-30',
  19: '2023-06-01',
  20: '2026-04-30',
  21: '2024-06-01',
  22: '2027-04-30',
  23: '2025-06-01',
  24: '2028-04-30',
  25: '2026-06-01',
  26: '2029-04-30',
}
const oldestListed = 18

/** Returns a warning for a version of Node that gets no security fixes any more; null for others. */
export function endOfLife(version: string, now: Date): string | null {
  const major = Number(version.split('.')[0])
  const lastDay = lastDays[major]
  const hasEnded = lastDay === undefined ? major < oldestListed : now > new Date(`${lastDay}T23:59:59Z`)
  if (!hasEnded) return null
  const since = lastDay === undefined ? '' : ` since ${lastDay}`
  return `Warning: Node ${major} has had no security fixes${since}. Move the app to a newer one.`
}

/** Returns the last npm of the major that a version of Node shipped with, where the server's own does not run; else null. */
export function npmFor(node: string): string | null {
  const [major = 0, minor = 0] = node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 17)) return null
  if (major >= 19 || (major === 18 && minor >= 17)) return '10.9.4'
  if (major >= 17 || (major === 16 && minor >= 13)) return '9.9.4'
  return major >= 14 ? '8.19.4' : '6.14.18'
}
