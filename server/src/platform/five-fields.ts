/**
 * The form of a schedule: minute, hour, day of the month, month and day of the week, as crontab(5) has them. Apart from
 * `cron.ts`, so that who checks the form alone does not load the library.
 */
export const fiveFields = /^[\dA-Za-z*,/-]+( +[\dA-Za-z*,/-]+){4}$/
