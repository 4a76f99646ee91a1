/*
 * `.dockerignore` by Docker's documentation: one pattern per line; the last match for a path or a parent folder
 * decides; `!` includes a path again.
 */

/** Each character may be compared with each character of every path, so the server refuses longer files. */
export const mostIgnoreCharacters = 20_000

type Token =
  | { readonly kind: 'literal'; readonly text: string }
  /** A character inside or outside of a set. */
  | { readonly kind: 'set'; readonly ranges: readonly (readonly [string, string])[]; readonly negated: boolean }
  /** Any character except the slash. */
  | { readonly kind: 'one' }
  /** Any characters except slashes. */
  | { readonly kind: 'many' }
  | { readonly kind: 'deep' }
  /** Any folders with their slashes. `inside` follows `folders`: the state within a folder's name. */
  | { readonly kind: 'folders' | 'inside' }

interface Pattern {
  readonly takesIn: boolean
  readonly tokens: readonly Token[]
}

export interface IgnoreRules {
  /** @param path from the top of the context, with slashes; invalid UTF-8 is replaced as usual */
  isIgnored(path: string): boolean
  /** False when no pattern can include files of an ignored folder again. */
  readonly takesIn: boolean
}

export function parseIgnoreFile(bytes: Buffer): IgnoreRules {
  // `TextDecoder` removes the byte order mark.
  const patterns = new TextDecoder().decode(bytes).split('\n').flatMap(parseLine)
  return {
    isIgnored: (path) => patterns.findLast(({ tokens }) => matches(tokens, path))?.takesIn === false,
    takesIn: patterns.some(({ takesIn }) => takesIn),
  }
}

function parseLine(line: string): Pattern[] {
  if (line.startsWith('#')) return []
  const trimmed = trim(line)
  const takesIn = trimmed.startsWith('!')
  const path = cleaned(takesIn ? trim(trimmed.slice(1)) : trimmed)
  return path === '' ? [] : [{ takesIn, tokens: tokensOf(path) }]
}

/** Trims the white space characters of Go, the language of Docker. */
const trim = (text: string): string => text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, '')

/** Removes `.`, `..`, repeated slashes, and leading and trailing slashes from a pattern. */
function cleaned(pattern: string): string {
  const parts: string[] = []
  for (const part of pattern.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return parts.join('/')
}

function tokensOf(pattern: string): Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < pattern.length; ) {
    const { token, length } = tokenAt(pattern, at)
    tokens.push(token)
    if (token.kind === 'folders') tokens.push({ kind: 'inside' })
    at += length
  }
  return tokens
}

function tokenAt(pattern: string, at: number): { readonly token: Token; readonly length: number } {
  const character = characterAt(pattern, at)
  if (character === '*') {
    const stars = /^\*+/.exec(pattern.slice(at))?.[0].length ?? 1
    if (stars === 1) return { token: { kind: 'many' }, length: 1 }
    return pattern[at + stars] === '/'
      ? { token: { kind: 'folders' }, length: stars + 1 }
      : { token: { kind: 'deep' }, length: stars }
  }
  if (character === '?') return { token: { kind: 'one' }, length: 1 }
  if (character === '\\' && at + 1 < pattern.length) {
    const text = characterAt(pattern, at + 1)
    return { token: { kind: 'literal', text }, length: 1 + text.length }
  }
  const set = character === '[' ? /^\[(\^?)((?:\\.|[^\]\\])+)\]/su.exec(pattern.slice(at)) : null
  if (set === null) return { token: { kind: 'literal', text: character }, length: character.length }
  const ranges = [...(set[2] ?? '').matchAll(/(?:\\(.)|([^\\]))(?:-(?:\\(.)|([^\\])))?/gsu)].map(([, a, b, c, d]) => {
    const first = a ?? b ?? ''
    return [first, c ?? d ?? first] as const
  })
  return { token: { kind: 'set', ranges, negated: set[1] === '^' }, length: set[0].length }
}

const characterAt = (text: string, at: number): string => String.fromCodePoint(text.codePointAt(at) ?? 0)

/**
 * True when the tokens match the path or a parent folder. All alternatives are followed in parallel, so the time is at
 * most the length of the pattern times the length of the path.
 */
function matches(tokens: readonly Token[], path: string): boolean {
  let states = closure(tokens, [0])
  for (const character of path) {
    if (character === '/' && states.has(tokens.length)) return true
    const next: number[] = []
    for (const state of states) {
      const token = tokens[state]
      if (token !== undefined) next.push(...after(token, state, character))
    }
    states = closure(tokens, next)
    if (states.size === 0) return false
  }
  return states.has(tokens.length)
}

function closure(tokens: readonly Token[], from: readonly number[]): Set<number> {
  const states = new Set<number>()
  for (const first of from) {
    for (let at = first; !states.has(at); at += skipped[tokens[at]?.kind ?? 'literal'] ?? 0) states.add(at)
  }
  return states
}

/** The number of tokens that each kind can skip without a character. */
const skipped: Readonly<Partial<Record<Token['kind'], number>>> = { many: 1, deep: 1, folders: 2 }

function after(token: Token, state: number, character: string): number[] {
  const isSlash = character === '/'
  switch (token.kind) {
    case 'literal':
      return token.text === character ? [state + 1] : []
    case 'one':
      return isSlash ? [] : [state + 1]
    case 'set': {
      const isIn = token.ranges.some(([from, to]) => from <= character && character <= to)
      return !isSlash && isIn !== token.negated ? [state + 1] : []
    }
    case 'many':
      return isSlash ? [] : [state]
    case 'deep':
      return [state]
    case 'folders':
      return isSlash ? [state + 1, state + 2] : [state + 1]
    case 'inside':
      return isSlash ? [state, state + 1] : [state]
  }
}
