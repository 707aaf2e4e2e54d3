"""Files, sentences, trees and their formats: what several families read."""
