/*
 * The file `.dockerignore`, with the rules that Docker documents for it: one pattern a line, the last one that matches a path
 * or a folder above it decides, and `!` takes a path back in.
 */

/** A longer file is not to be parsed: each of its characters may be compared with each character of every path. */
export const mostIgnoreCharacters = 20_000

type Token =
  | { readonly kind: 'literal'; readonly text: string }
  /** One character of a set, or outside of it. */
  | { readonly kind: 'set'; readonly ranges: readonly (readonly [string, string])[]; readonly negated: boolean }
  /** Any one character but the slash. */
  | { readonly kind: 'one' }
  /** Any characters but slashes, and none. */
  | { readonly kind: 'many' }
  /** Any characters, slashes included, and none. */
  | { readonly kind: 'deep' }
  /** Any number of folders, each with its slash; `inside` follows it, and stands within the name of one. */
  | { readonly kind: 'folders' | 'inside' }

interface Pattern {
  readonly takesIn: boolean
  readonly tokens: readonly Token[]
}

/** The rules of one file. */
export interface IgnoreRules {
  /** @param path from the top of the context, with slashes between its parts; bytes that are no UTF-8 are replaced as usual */
  isIgnored(path: string): boolean
  /** False where nothing in an ignored folder can be taken in again. */
  readonly takesIn: boolean
}

export function parseIgnoreFile(bytes: Buffer): IgnoreRules {
  // Drops the mark of the byte order.
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

/** Takes off what is white space for Go, which Docker is written in. */
const trim = (text: string): string => text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, '')

/** Takes `.`, `..`, repeated slashes and those at both ends out of a pattern. */
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
 * True when the tokens match the path or a folder above it. All ways to match are followed side by side, so that no
 * pattern takes longer than its length times that of the path.
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

/** Adds the states that are reached without a character. */
function closure(tokens: readonly Token[], from: readonly number[]): Set<number> {
  const states = new Set<number>()
  for (const first of from) {
    for (let at = first; !states.has(at); at += skipped[tokens[at]?.kind ?? 'literal'] ?? 0) states.add(at)
  }
  return states
}

/** How many tokens each kind leads on by without a character. */
const skipped: Readonly<Partial<Record<Token['kind'], number>>> = { many: 1, deep: 1, folders: 2 }

/** Returns the states that follow a token when it takes the character. */
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
