/**
 * Does in a sandbox what `enter.ts` does: becomes a command with variables that no process list shows. Perl begins in some
 * milliseconds, Node in some forty, and each command waits for it. It loads no module, which a system may lack.
 *
 * Descriptor 3 has a count, as many texts (the file and its arguments), and then the variables, each with a zero byte at
 * its end.
 */
const program = [
  'open my $in, "<&=3" or exit 126;',
  'my ($count, @texts) = split /\\0/, do { local $/; <$in> }, -1;',
  'close $in;',
  'pop @texts;',
  'my ($file, @args) = splice @texts, 0, $count;',
  '%ENV = map { split /=/, $_, 2 } @texts;',
  'exec { $file } $file, @args or print STDERR "$file: $!\\n";',
  'exit 126;',
].join(' ')

/** Returns the command line that becomes the command which `perlEntrance` describes. */
export const perlCommand = (perl: string): [string, ...string[]] => [perl, '-e', program]

/** Returns the input on descriptor 3. */
export function perlEntrance(argv: readonly string[], env: Readonly<Record<string, string>>): string {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  return [argv.length, ...argv, ...variables].map((text) => `${text}\0`).join('')
}
