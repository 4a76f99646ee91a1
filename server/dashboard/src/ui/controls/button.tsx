import type { ComponentProps, ReactNode } from 'react'
import { Spinner } from './spinner.tsx'

const base =
  'inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap transition-colors disabled:opacity-50'

const variants = {
  primary: 'border-transparent bg-accent text-accent-ink hover:bg-accent-strong',
  plain: 'border-line bg-panel text-ink hover:border-line-strong',
  quiet: 'border-transparent bg-transparent text-muted hover:bg-line/50 hover:text-ink',
  danger: 'border-bad/40 bg-panel text-bad hover:border-bad hover:bg-bad-soft',
} as const

const sizes = { normal: 'h-8 px-3', small: 'h-7 px-2 text-[13px]', icon: 'size-8' } as const

export interface ButtonStyle {
  readonly variant?: keyof typeof variants
  readonly size?: keyof typeof sizes
}

/** Returns the classes of a button, for links that look like one. */
export function buttonClass({ variant = 'plain', size = 'normal' }: ButtonStyle = {}): string {
  return `${base} ${variants[variant]} ${sizes[size]}`
}

type Props = ComponentProps<'button'> & ButtonStyle & { readonly busy?: boolean; readonly icon?: ReactNode }

/** A button. While `busy` it shows a spinner and ignores clicks. */
export function Button({ variant, size, busy = false, icon, children, className = '', disabled, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      className={`${buttonClass({ ...(variant && { variant }), ...(size && { size }) })} ${className}`}
    >
      {busy ? <Spinner /> : icon}
      {children}
    </button>
  )
}
