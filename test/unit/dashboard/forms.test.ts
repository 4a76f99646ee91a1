import { ApiError } from '@fairlead/server/client'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { changedRows } from '../../../server/dashboard/src/data/variable-rows.ts'
import { variableChange } from '../../../server/dashboard/src/pages/project/app/variables/variable-change.ts'
import {
  type Draft,
  keepChanges,
  outcomeText,
  type Saved,
  savedSince,
  shownText,
  typed,
  withoutSent,
} from '../../../server/dashboard/src/ui/forms/draft.ts'
import { sentNumbers, sentTexts } from '../../../server/dashboard/src/ui/forms/values.ts'

const untouched: Draft = new Map()

/** Returns the changes that a form sends when its controls show a draft over saved values. */
function sent(draft: Draft, saved: Saved): Record<string, unknown> {
  const values = new FormData()
  for (const name of Object.keys(saved)) values.set(name, shownText(draft, saved, name))
  keepChanges(values, saved, draft)
  return Object.fromEntries(values)
}

describe('a form with saved values', () => {
  it('sends only the user’s changes, whatever other users save before and after', () => {
    const name = fc.constantFrom('name', 'plan', 'constructor')
    const text = fc.constantFrom('', 'a', 'b')
    const saved = fc.record({ name: text, plan: text, constructor: text })
    const step = fc.oneof(fc.record({ typedName: name, text }), fc.record({ saved }))
    fc.assert(
      fc.property(saved, fc.array(step), (opened, steps) => {
        let [now, draft]: [Saved, Draft] = [opened, untouched]
        const touched = new Set<string>()
        for (const each of steps) {
          if ('saved' in each) now = each.saved
          else {
            draft = typed(draft, now, each.typedName, each.text)
            if (each.text === now[each.typedName]) touched.delete(each.typedName)
            else touched.add(each.typedName)
          }
        }
        for (const [field, value] of Object.entries(sent(draft, now))) {
          expect(touched).toContain(field)
          expect(value).not.toBe(now[field])
        }
        for (const field of Object.keys(now)) {
          if (!touched.has(field)) expect(shownText(draft, now, field)).toBe(now[field])
        }
      }),
    )
  })

  it('renames a project whose plan another user changed, and leaves the plan', () => {
    const draft = typed(untouched, { name: 'two', plan: 'free' }, 'name', 'three')
    expect(sent(draft, { name: 'two', plan: 'pro' })).toEqual({ name: 'three' })
  })

  it('shows other users’ changes again in a field that was saved here', () => {
    const draft = typed(untouched, { web: '', worker: '2' }, 'worker', '1')
    const after = withoutSent(draft, draft)
    expect(shownText(after, { web: '', worker: '0' }, 'worker')).toBe('0')
    expect(sent(typed(after, { web: '', worker: '0' }, 'web', '2'), { web: '', worker: '0' })).toEqual({ web: '2' })
  })

  it('keeps text that was typed during an earlier save', () => {
    const draft = typed(untouched, { name: 'one' }, 'name', 'two')
    const later = typed(draft, { name: 'one' }, 'name', 'three')
    const after = withoutSent(later, draft)
    expect(sent(after, { name: 'two' })).toEqual({ name: 'three' })
    // This form saved the text, so the text is no foreign change.
    expect(savedSince(after, { name: 'two' }, 'name')).toBeUndefined()
    expect(savedSince(after, { name: 'four' }, 'name')).toBe('four')
  })

  it('keeps an earlier value that the user typed again during another save', () => {
    const draft = typed(untouched, { name: 'one' }, 'name', 'two')
    const later = typed(draft, { name: 'one' }, 'name', 'one', draft)
    expect(sent(withoutSent(later, draft), { name: 'two' })).toEqual({ name: 'one' })
    // The server has refused the other value.
    expect(sent(later, { name: 'one' })).toEqual({})
  })

  it('is saved when it shows no unsaved value', () => {
    const draft = typed(untouched, { name: 'one' }, 'name', 'two')
    const later = typed(draft, { name: 'one' }, 'name', 'three')
    expect(outcomeText('saved', withoutSent(draft, draft))).toBe('Saved.')
    expect(outcomeText('saved', withoutSent(later, draft))).toBe('')
    expect(outcomeText('unchanged', draft)).toBe('Nothing was changed.')
    expect(outcomeText(undefined, untouched)).toBe('')
  })

  it('reports that another user changed the field that its user is changing', () => {
    const draft = typed(untouched, { web: '1' }, 'web', '2')
    expect(savedSince(draft, { web: '1' }, 'web')).toBeUndefined()
    expect(savedSince(draft, { web: '3' }, 'web')).toBe('3')
    expect(savedSince(typed(draft, { web: '3' }, 'web', '23'), { web: '3' }, 'web')).toBe('3')
    expect(savedSince(draft, { web: '2' }, 'web')).toBeUndefined()
    expect(savedSince(untouched, { web: '3' }, 'web')).toBeUndefined()
  })

  it('reports that nothing was changed', () => {
    const draft = typed(typed(untouched, { name: 'one' }, 'name', 'two'), { name: 'one' }, 'name', 'one')
    expect(keepChanges(new FormData(), { name: 'one' }, draft)).toBe(false)
    expect(keepChanges(new FormData(), { name: 'one' }, typed(draft, { name: 'one' }, 'name', ''))).toBe(true)
  })

  it('returns only the texts that are sent', () => {
    const values = new FormData()
    values.set('name', ' two ')
    expect(sentTexts(values, ['name', 'plan'])).toEqual({ name: 'two' })
  })
})

describe('a field for a whole number', () => {
  const read = (text: string) => {
    const values = new FormData()
    values.set('web', text)
    return sentNumbers(values, ['web', 'worker'])
  }

  it.each([
    ['0', 0],
    ['2', 2],
    ['120', 120],
    ['', null],
  ])('takes digits or nothing: %j', (text, number) => {
    expect([...read(text)]).toEqual([['web', number]])
  })

  it.each(['2-', '1e3', ' 2 ', ' ', '٢', '2.5', '-1', '+1', '0x2', '02', 'NaN', '2\n'])(
    'refuses with a message at the field: %j',
    (text) => {
      const message = `“${text}” is not a whole number. Write digits only, such as 2.`
      const error = new ApiError('invalid_request', message, { errors: [{ field: 'web', message }] })
      expect(() => read(text)).toThrow(error)
    },
  )

  it('has its message beside the messages of other fields', () => {
    const values = new FormData()
    for (const [name, text] of [['web', 'two'] as const, ['worker', '1'] as const, ['mailer', '2-'] as const])
      values.set(name, text)
    expect(() => sentNumbers(values, ['web', 'worker', 'mailer'])).toThrow(
      expect.objectContaining({
        details: { errors: [expect.objectContaining({ field: 'web' }), expect.objectContaining({ field: 'mailer' })] },
      }),
    )
  })
})

it('a form of variables sends the changed rows', () => {
  const initial = [{ name: 'SECRET', value: '' }]
  expect(changedRows([{ name: 'SECRET', value: '' }], initial)).toEqual([])
  expect(changedRows([{ name: 'SECRET ', value: '' }], initial)).toEqual([])
  const rows = [
    { name: 'SECRET', value: '' },
    { name: 'NEW', value: '' },
  ]
  expect(changedRows(rows, initial)).toEqual([{ name: 'NEW', value: '' }])
  expect(changedRows([{ name: 'SECRET', value: 'new' }], initial)).toEqual([{ name: 'SECRET', value: 'new' }])
})

describe('a form that changes a variable', () => {
  const [plain, secret] = [
    { name: 'X', kind: 'plain', value: '1', updated_at: '2026-01-01T00:00:00.000Z' } as const,
    { name: 'X', kind: 'secret', value: null, updated_at: '2026-01-01T00:00:00.000Z' } as const,
  ]
  const opened = (variable: typeof plain | typeof secret) => {
    const initial = [{ name: variable.name, value: variable.value ?? '' }]
    return { rows: initial, initial, opened: variable, present: variable, kind: undefined }
  }
  const other = { name: 'Y', value: '2' }
  const problem = (message: string) =>
    expect.objectContaining({ details: { errors: [{ field: 'set.X', message: expect.stringContaining(message) }] } })

  it('gives all variables that it sets the displayed kind', () => {
    const rows = [{ name: 'X', value: 'new' }, other]
    expect(variableChange({ ...opened(secret), rows })).toEqual({ set: { X: 'new', Y: '2' }, kind: 'secret' })
    expect(variableChange({ ...opened(plain), rows })).toEqual({ set: { X: 'new', Y: '2' }, kind: 'plain' })
    expect(variableChange({ ...opened(plain), rows, kind: 'secret' })).toMatchObject({ kind: 'secret' })
    // Another user has changed the kind: the form still shows the earlier kind.
    expect(variableChange({ ...opened(secret), rows, present: plain })).toMatchObject({ kind: 'secret' })
  })

  it('adds variables with the chosen kind', () => {
    const form = { initial: [{ name: '', value: '' }], rows: [other], opened: undefined, present: undefined }
    expect(variableChange({ ...form, kind: 'plain' })).toEqual({ set: { Y: '2' }, kind: 'plain' })
  })

  it('does not touch the value of a secret variable beside others', () => {
    expect(variableChange({ ...opened(secret), rows: [...opened(secret).rows, other] }).set).toEqual({ Y: '2' })
  })

  it('sends the value again when only the kind of a variable is changed', () => {
    expect(variableChange({ ...opened(plain), kind: 'secret' })).toEqual({ set: { X: '1' }, kind: 'secret' })
    expect(() => variableChange({ ...opened(secret), kind: 'plain' })).toThrow(problem('Write the value, too'))
  })

  it('refuses another kind for a value that another user changed or removed', () => {
    const form = { ...opened(plain), kind: 'secret' } as const
    const present = { ...plain, value: '3', updated_at: '2026-01-02T00:00:00.000Z' }
    expect(() => variableChange({ ...form, present })).toThrow(problem('open it again'))
    expect(() => variableChange({ ...form, present: undefined })).toThrow(problem('removed elsewhere'))
    // A value that its user has written is saved.
    const rows = [{ name: 'X', value: 'mine' }]
    expect(variableChange({ ...form, rows, present })).toEqual({ set: { X: 'mine' }, kind: 'secret' })
  })
})
