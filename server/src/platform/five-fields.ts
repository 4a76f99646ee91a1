/**
 * The form of a schedule: minute, hour, day of the month, month and day of the week, as in crontab(5). Separate from
 * `cron.ts`, so that validation does not load croner.
 */
export const fiveFields = /^[\dA-Za-z*,/-]+( +[\dA-Za-z*,/-]+){4}$/
