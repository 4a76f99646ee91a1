import type * as dotenv from '../dist/contract/dotenv.js' with { 'resolution-mode': 'import' }

export type * from '../dist/contract/dotenv.js' with { 'resolution-mode': 'import' }
export declare const parseDotenv: typeof dotenv.parseDotenv
export declare const readDotenv: typeof dotenv.readDotenv
