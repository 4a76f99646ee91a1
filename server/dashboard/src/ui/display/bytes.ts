const units = ['B', 'kB', 'MB', 'GB', 'TB'] as const

/** Formats a number of bytes in powers of 1,000, such as `1.5 MB`. */
export function formatBytes(count: number): string {
  let value = count
  let unit = 0
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000
    unit++
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2
  return `${Number(value.toFixed(digits))} ${units[unit]}`
}
