/** The pure parts only: the rest is tried in a real JupyterLab. */
module.exports = {
  testEnvironment: 'jsdom',
  testRegex: 'src/__tests__/.*\\.spec\\.ts$',
  transform: {
    '\\.ts$': ['ts-jest', { tsconfig: 'tsconfig.test.json' }],
    'node_modules/(@noble|marked)/.*\\.js$': [
      'ts-jest',
      { tsconfig: { allowJs: true, module: 'commonjs', target: 'ES2020' } }
    ]
  },
  transformIgnorePatterns: ['/node_modules/(?!(@noble|marked)/)']
};
