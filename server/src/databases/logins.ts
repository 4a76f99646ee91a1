import type { DatabaseRow } from './tables.ts'

type LoginColumns = Pick<DatabaseRow, 'role_name' | 'second_role' | 'login'>

/** Returns the name of the role that logs in to a database. */
export function loginOf({ role_name, second_role, login }: LoginColumns): string {
  return login === 'second' && second_role !== null ? second_role : role_name
}

/** Returns the name of the role that the next rotation lets log in; null before the first rotation. */
export function otherLoginOf({ role_name, second_role, login }: LoginColumns): string | null {
  return login === 'second' ? role_name : second_role
}

export function activeLogins(row: LoginColumns & Pick<DatabaseRow, 'former_password'>): string[] {
  const former = row.former_password === null ? null : otherLoginOf(row)
  return [loginOf(row), ...(former === null ? [] : [former])]
}

export function rolesOf({ role_name, second_role }: Pick<LoginColumns, 'role_name' | 'second_role'>): string[] {
  return second_role === null ? [role_name] : [role_name, second_role]
}
