import { cpSync } from 'node:fs'

// Stands for a compiler: the package is used by its output.
cpSync('src', 'dist', { recursive: true })
