// Package recipes has complete jobs that need no files.
package recipes
