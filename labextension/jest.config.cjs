// Jupyter's packages are ES modules of which jest understands only what ts-jest has translated.
const modules = [
  '@jupyterlab',
  '@jupyter',
  '@lumino',
  '@microsoft',
  '@rjsf',
  'lib0',
  'y-protocols',
  'y-websocket',
  'yjs',
  'nanoid',
  'vscode-ws-jsonrpc',
  'exenv-es6',
  'lodash-es'
];

module.exports = {
  testEnvironment: 'jsdom',
  // Ends a test that hangs. Beside all others, and nice, 5 s may be too few for one that does not.
  testTimeout: 60_000,
  setupFiles: ['<rootDir>/src/__tests__/browser.cjs'],
  testMatch: ['<rootDir>/src/**/__tests__/*.test.ts', '<rootDir>/src/**/__tests__/*.test.tsx'],
  transform: {
    '\\.(ts|tsx|js|mjs)$': [
      'ts-jest',
      {
        isolatedModules: true,
        tsconfig: {
          allowJs: true,
          esModuleInterop: true,
          jsx: 'react-jsx',
          module: 'commonjs',
          target: 'ES2022'
        }
      }
    ]
  },
  transformIgnorePatterns: [`/node_modules/(?!(${modules.join('|')})/)`],
  moduleNameMapper: { '\\.(css|svg)$': '<rootDir>/src/__tests__/empty.cjs' }
};
